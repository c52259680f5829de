// RUN: et-opt --externalize-weights %s | filecheck %s
// RUN: et-opt -p 'externalize-weights{tag=shared match=net.*.weight}' %s | filecheck %s --check-prefix=MATCH
// RUN: et-opt -p 'externalize-weights{min-bytes=64}' %s | filecheck %s --check-prefix=LARGE
// RUN: et-opt -p 'externalize-weights{what=state}' %s | filecheck %s --check-prefix=STATE
// RUN: et-opt -p 'externalize-weights{what=all}' %s | filecheck %s --check-prefix=ALL
// RUN: et-opt -p 'externalize-weights{match=net.first.* tag=a},externalize-weights{tag=b}' %s | filecheck %s --check-prefix=TWICE

// A weight of 64 bytes, found by its fully qualified name. The second run of TWICE leaves the first one's mark.
// CHECK: et.weight @first : tensor<4x4xf32> = #et.synthetic<seed = 1> {fqn = "net.first.weight", external = "weights"}
// MATCH: et.weight @first {{.*}} {fqn = {{.*}}, external = "shared"}
// LARGE: et.weight @first {{.*}} {fqn = {{.*}}, external = "weights"}
// STATE: et.weight @first {{.*}} {fqn = "net.first.weight"}
// ALL: et.weight @first {{.*}} {fqn = {{.*}}, external = "weights"}
// TWICE: et.weight @first {{.*}} {fqn = {{.*}}, external = "a"}
et.weight @first : tensor<4x4xf32> = #et.synthetic<seed = 1> {fqn = "net.first.weight"}

// 60 bytes, of another name.
// CHECK: et.weight @bias {{.*}} {fqn = {{.*}}, external = "weights"}
// MATCH: et.weight @bias {{.*}} {fqn = "net.first.bias"}
// LARGE: et.weight @bias {{.*}} {fqn = "net.first.bias"}
// TWICE: et.weight @bias {{.*}} {fqn = {{.*}}, external = "a"}
et.weight @bias : tensor<15xf32> = #et.synthetic<seed = 2> {fqn = "net.first.bias"}

// A weight that a pass made has no name of the model's: its symbol is what it is found by.
// CHECK: et.weight @w_folded {{.*}} {external = "weights"}
// MATCH: et.weight @w_folded : tensor<32xf32> = #et.synthetic<seed = 3>{{$}}
// LARGE: et.weight @w_folded {{.*}} {external = "weights"}
// TWICE: et.weight @w_folded {{.*}} {external = "b"}
et.weight @w_folded : tensor<32xf32> = #et.synthetic<seed = 3>

// A weight without elements has nothing to be kept outside.
// CHECK: et.weight @empty : tensor<0xf32> = #et.synthetic<seed = 4>{{$}}
et.weight @empty : tensor<0xf32> = #et.synthetic<seed = 4>

// State is kept outside where it is asked for; state without initial bytes has none.
// CHECK: et.state @cache {{.*}} {fqn = "net.cache", kind = "buffer"}
// STATE: et.state @cache {{.*}} {fqn = {{.*}}, external = "weights"}
// ALL: et.state @cache {{.*}} {fqn = {{.*}}, external = "weights"}
et.state @cache : tensor<4xf32> = #et.synthetic<seed = 5> {fqn = "net.cache", kind = "buffer"}
// STATE: et.state @scratch : tensor<4xf32> {fqn = "net.scratch", kind = "buffer"}
// ALL: et.state @scratch : tensor<4xf32> {fqn = "net.scratch", kind = "buffer"}
et.state @scratch : tensor<4xf32> {fqn = "net.scratch", kind = "buffer"}

// The data of delegates that is looked up by key counts as weights.
// CHECK: et.named_data "net.packed" = #et.blob<"sha256:ffeeddccbbaa99887766554433221100", 64> {external = "weights"}
// LARGE: et.named_data "net.packed" {{.*}} {external = "weights"}
// MATCH: et.named_data "net.packed" = #et.blob<"sha256:ffeeddccbbaa99887766554433221100", 64>{{$}}
// STATE: et.named_data "net.packed" = #et.blob<"sha256:ffeeddccbbaa99887766554433221100", 64>{{$}}
et.named_data "net.packed" = #et.blob<"sha256:ffeeddccbbaa99887766554433221100", 64>
