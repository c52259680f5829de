// RUN: et-opt -p functionalize %s | filecheck %s
// RUN: et-opt -p functionalize,functionalize %s | filecheck %s
