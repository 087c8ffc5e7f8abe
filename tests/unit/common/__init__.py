"""What every room shares."""
