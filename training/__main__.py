"""`python -m training <stage>`: the command line of the pipeline."""

from training.cli import main

if __name__ == "__main__":
    main()
