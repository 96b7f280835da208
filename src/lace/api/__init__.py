"""What an application uses: open a lace, say what belongs, interlace with others."""
