// Every problem of a pipeline is reported, with its place in the text; nothing runs.

// RUN: not et-opt -p 'cse{fast=1}, apply-pdl, planmem' %s 2>&1 | filecheck %s --check-prefix=MANY
// MANY: <pipeline>:1:5: error[E0503]: pass 'cse' has no option 'fast'; it takes no options
// MANY-NEXT: cse{fast=1}, apply-pdl, planmem
// MANY-NEXT: {{^ +\^}}
// MANY: <pipeline>:1:14: error[E0503]: pass 'apply-pdl' needs option 'file' (str)
// MANY: <pipeline>:1:25: error[E0502]: there is no pass 'planmem'; did you mean plan-memory?
// MANY-NOT: Traceback

// RUN: not et-opt -p 'plan-memory{algorthm=greedy alignment=big}' %s 2>&1 | filecheck %s --check-prefix=OPTION
// OPTION: error[E0503]: pass 'plan-memory' has no option 'algorthm'; did you mean 'algorithm'?
// OPTION: error[E0503]: option 'alignment' of pass 'plan-memory' takes int, not 'big'

// RUN: not et-opt -p 'plan-memory{algorithm=fast algorithm=greedy}' %s 2>&1 | filecheck %s --check-prefix=CHOICE
// CHOICE: error[E0503]: option 'algorithm' of pass 'plan-memory' takes auto|
// CHOICE-SAME: not 'fast'
// CHOICE: error[E0503]: option 'algorithm' of pass 'plan-memory' is given twice

// RUN: not et-opt -p 'cse,,dce' %s 2>&1 | filecheck %s --check-prefix=COMMA
// COMMA: <pipeline>:1:5: error[E0506]: expected the name of a pass, found ','
// RUN: not et-opt -p 'cse{' %s 2>&1 | filecheck %s --check-prefix=BRACE
// BRACE: <pipeline>:1:5: error[E0506]: expected an option or '}', found the end
// RUN: not et-opt -p 'apply-pdl{file="a}' %s 2>&1 | filecheck %s --check-prefix=QUOTE
// QUOTE: <pipeline>:1:16: error[E0506]: a quoted value is not closed
// RUN: not et-opt -p 'builtin.module(cse' %s 2>&1 | filecheck %s --check-prefix=ANCHOR
// ANCHOR: error[E0506]: expected ',' or ')', found the end

// A pass as an option that does not exist.
// RUN: not et-opt --csee %s 2>&1 | filecheck %s --check-prefix=FLAG
// FLAG: error[E0901]: et-opt: unknown option '--csee'; did you mean --cse?
// RUN: not et-opt --cse -p dce %s 2>&1 | filecheck %s --check-prefix=BOTH
// BOTH: error[E0901]: et-opt: give passes either as options or with -p

func.func @forward() {
  func.return
}
