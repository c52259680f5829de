"""Small trained nets whose accuracy tells a good quantizer from a bad one."""
