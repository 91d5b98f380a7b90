"""From a round's tensors to the columns of the record, off the lane's clock."""
