"""What clients can ask for, written against Exchange."""
