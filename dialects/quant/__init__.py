"""The quant dialect: what calibration saw of a value, and how it is to be stored, until pairs of operators say so."""
