"""What every package uses: arguments, messages, records, loops."""
