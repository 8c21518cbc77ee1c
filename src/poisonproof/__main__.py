"""`python -m poisonproof` is the command line."""

from poisonproof.cli.main import main

if __name__ == "__main__":
    main()
