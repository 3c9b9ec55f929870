"""What rulesweep costs, measured on the machine at hand: `python -m benchmarks`."""
