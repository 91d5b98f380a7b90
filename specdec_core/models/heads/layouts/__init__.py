"""What a head's folder holds, in each published layout: its kind, its shapes, its tensors."""
