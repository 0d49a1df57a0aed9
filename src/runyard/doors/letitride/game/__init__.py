"""What is played: bets, strategies and money, as both engines read them."""
