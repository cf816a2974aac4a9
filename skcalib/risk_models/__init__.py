"""What a risk model reports: a summary, and what its decisions cost."""
