pdl.pattern @any_alpha : benefit(1) {
  %x = pdl.operand
  %s = pdl.operation "aten.add.Tensor" (%x, %x : !pdl.value, !pdl.value)
  pdl.rewrite %s {
    %two = pdl.attribute = 2 : i64
    %m = pdl.operation "aten.mul.Tensor" (%x : !pdl.value) {"other" = %two}
    pdl.replace %s with %m
  }
}

pdl.pattern @any_keepdim : benefit(1) {
  %x = pdl.operand
  %dim = pdl.attribute = array<i64: 1>
  %dtype = pdl.attribute
  %n = pdl.operation "aten.neg.default" (%x : !pdl.value)
  %v = pdl.result 0 of %n
  %s = pdl.operation "aten.sum.dim_IntList" (%v : !pdl.value) {"dim" = %dim, "dtype" = %dtype}
  pdl.rewrite %s {
    pdl.replace %s with (%v : !pdl.value)
  }
}
