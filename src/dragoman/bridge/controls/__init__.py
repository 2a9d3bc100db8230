"""What clients may ask for, a module for each noun. `table` says which function answers what, and what it needs."""
