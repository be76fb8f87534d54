"""What a replay needs: pace, ledger, and the sending of one queue."""
