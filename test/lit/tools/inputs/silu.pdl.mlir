pdl.pattern @silu : benefit(1) {
  %x = pdl.operand
  %s = pdl.operation "aten.sigmoid.default" (%x : !pdl.value)
  %v = pdl.result 0 of %s
  %m = pdl.operation "aten.mul.Tensor" (%x, %v : !pdl.value, !pdl.value)
  pdl.rewrite %m {
    %f = pdl.operation "aten.silu.default" (%x : !pdl.value)
    pdl.replace %m with %f
  }
}
