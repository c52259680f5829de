"""What tests of the developer tools share."""
