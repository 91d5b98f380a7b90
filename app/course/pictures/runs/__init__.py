"""What a recorded or scripted run did, round by round."""
