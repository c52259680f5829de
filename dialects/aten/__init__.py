"""The ATen dialect: operators as torch names them, one class per overload."""
