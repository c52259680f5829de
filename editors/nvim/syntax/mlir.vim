" Programs of the etir compiler as text.
if exists("b:current_syntax")
  finish
endif

syntax region etirString start=+"+ skip=+\\.+ end=+"+ oneline
syntax match etirExpect "expected-\(error\|warning\|remark\|note\)\(-re\)\?" contained
syntax match etirComment "//.*$" contains=etirExpect
syntax match etirValue "%[A-Za-z0-9_$.-]\+\(#[0-9]\+\)\?"
syntax match etirSymbol "@[A-Za-z_][A-Za-z0-9_$.-]*"
syntax match etirBlock "\^[A-Za-z0-9_$.-]\+"
syntax match etirAttribute "[#!][A-Za-z_][A-Za-z0-9_$.]*"
syntax match etirOperation "\<[a-z_][a-z0-9_]*\.[A-Za-z0-9_.]\+"
syntax match etirType "\<\(tensor\|memref\|[su]\?i[0-9]\+\|bf16\|f[0-9]\+\|index\|none\)\>"
syntax match etirNumber "\<-\?[0-9]\+\(\.[0-9]*\)\?\([eE][+-]\?[0-9]\+\)\?\>"
syntax region etirLocation start="\<loc(" end=")\s*$" oneline

highlight default link etirString String
highlight default link etirExpect Todo
highlight default link etirComment Comment
highlight default link etirValue Identifier
highlight default link etirSymbol Function
highlight default link etirBlock Label
highlight default link etirAttribute PreProc
highlight default link etirOperation Statement
highlight default link etirType Type
highlight default link etirNumber Number
highlight default link etirLocation Comment

let b:current_syntax = "mlir"
