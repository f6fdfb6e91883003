"""What a program means. Knows no target, no device and no generator."""
