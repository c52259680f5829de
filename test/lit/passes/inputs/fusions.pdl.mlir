pdl.pattern @clamp_low : benefit(1) {
  %x = pdl.operand
  %low = pdl.operand
  %c = pdl.operation "aten.clamp.Tensor" (%x, %low : !pdl.value, !pdl.value)
  pdl.rewrite %c {
    %m = pdl.operation "aten.maximum.default" (%x, %low : !pdl.value, !pdl.value)
    pdl.replace %c with %m
  }
}

pdl.pattern @sub_to_rsub : benefit(1) {
  %x = pdl.operand
  %y = pdl.operand
  %alpha = pdl.attribute
  %s = pdl.operation "aten.sub.Tensor" (%x, %y : !pdl.value, !pdl.value) {"alpha" = %alpha}
  pdl.rewrite %s {
    %r = pdl.operation "aten.rsub.Tensor" (%y, %x : !pdl.value, !pdl.value) {"alpha" = %alpha}
    pdl.replace %s with %r
  }
}

pdl.pattern @double : benefit(2) {
  %x = pdl.operand
  %one = pdl.attribute = 1 : i64
  %s = pdl.operation "aten.add.Tensor" (%x, %x : !pdl.value, !pdl.value) {"alpha" = %one}
  pdl.rewrite %s {
    %two = pdl.attribute = 2 : i64
    %m = pdl.operation "aten.mul.Tensor" (%x : !pdl.value) {"other" = %two}
    pdl.replace %s with %m
  }
}

pdl.pattern @max_value : benefit(1) {
  %x = pdl.operand
  %dim = pdl.attribute = 1 : i64
  %values = pdl.type
  %indices = pdl.type
  %m = pdl.operation "aten.max.dim" (%x : !pdl.value) {"dim" = %dim} -> (%values, %indices : !pdl.type, !pdl.type)
  %v = pdl.result 0 of %m
  %a = pdl.operation "aten.alias.default" (%v : !pdl.value)
  pdl.rewrite %a {
    %dims = pdl.attribute = array<i64: 1>
    %r = pdl.operation "aten.amax.default" (%x : !pdl.value) {"dim" = %dims} -> (%values : !pdl.type)
    %rv = pdl.result 0 of %r
    pdl.replace %a with (%rv : !pdl.value)
  }
}

pdl.pattern @cat_of_one : benefit(1) {
  %x = pdl.operand
  %c = pdl.operation "aten.cat.default" (%x : !pdl.value)
  pdl.rewrite %c {
    pdl.replace %c with (%x : !pdl.value)
  }
}

pdl.pattern @neg_of_neg : benefit(1) {
  %vector = pdl.type : tensor<4xf32>
  %x = pdl.operand : %vector
  %n = pdl.operation "aten.neg.default" (%x : !pdl.value)
  %v = pdl.result 0 of %n
  %m = pdl.operation "aten.neg.default" (%v : !pdl.value)
  pdl.rewrite %m {
    pdl.replace %m with (%x : !pdl.value)
  }
}
