"""What tests of language models share."""
