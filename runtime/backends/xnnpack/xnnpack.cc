#include "backends/xnnpack/xnnpack.h"

#include <new>

#include "backends/xnnpack/graph.h"

namespace etir {

namespace {

using xnnpack::External;
using xnnpack::Graph;

Error xnnpack_init(BackendInit& init, void** handle) {
  void* memory = init.allocate(sizeof(Graph), alignof(Graph));
  if (memory == nullptr) return init.fail(Check::BackendMemory, init.index, sizeof(Graph));
  Graph* graph = new (memory) Graph;
  *handle = graph;
  return xnnpack::load_graph(init, graph);
}

Error refuse(KernelContext& ctx, uint32_t position, int64_t found) {
  ctx.fail(Check::BackendArguments, position, found);
  return Error::InvalidProgram;
}

// Whether argument `i` is a tensor like `inside`; a scalar is a tensor of one dim there.
bool fits(KernelContext& ctx, uint32_t i, const Tensor& inside) {
  if (ctx.tag(static_cast<int>(i)) != Tag::Tensor) return false;
  const Tensor& tensor = ctx.tensor(static_cast<int>(i));
  return tensor.dtype == inside.dtype && (tensor.rank == inside.rank || (tensor.rank == 0 && inside.rank == 1));
}

// Dims inside are those outside in the order in which elements lie.
void take_input(const Tensor& outside, Tensor& inside) {
  int32_t* sizes = const_cast<int32_t*>(inside.sizes);
  uint64_t count = 1;
  for (int d = 0; d < inside.rank; ++d) {
    sizes[d] = outside.rank == 0 ? 1 : outside.sizes[outside.order(d)];
    count *= static_cast<uint64_t>(sizes[d]);
  }
  inside.data = outside.data;
  inside.capacity = static_cast<uint32_t>(count < UINT32_MAX ? count : UINT32_MAX);
}

bool give_sizes(KernelContext& ctx, const Tensor& inside, Tensor& outside) {
  int64_t sizes[kMaxRank];
  for (int d = 0; d < outside.rank; ++d) sizes[outside.order(d)] = inside.sizes[d];
  return ctx.resize(outside, sizes, outside.rank);
}

Error xnnpack_execute(void* handle, KernelContext& ctx, uint32_t count) {
  Graph& graph = *static_cast<Graph*>(handle);
  if (graph.scratch_bytes > 0 && ctx.temp(graph.scratch_bytes) == nullptr) return Error::MemoryAllocationFailed;
  for (uint32_t i = 0; i < graph.num_inputs; ++i) {
    const External& input = graph.inputs[i];
    Tensor& inside = *graph.values.payloads[input.value].tensor;
    if (input.position >= count || !fits(ctx, input.position, inside)) return refuse(ctx, input.position, count);
    take_input(ctx.tensor(static_cast<int>(input.position)), inside);
  }
  for (uint32_t i = 0; i < graph.num_outputs; ++i) {
    const External& output = graph.outputs[i];
    Tensor& inside = *graph.values.payloads[output.value].tensor;
    if (output.position >= count || !fits(ctx, output.position, inside)) return refuse(ctx, output.position, count);
    Tensor& outside = ctx.tensor(static_cast<int>(output.position));
    if ((outside.flags & Tensor::kFlagConstant) != 0) return refuse(ctx, output.position, -1);
    if (outside.dynamism == Dynamism::Unbound && !give_sizes(ctx, inside, outside)) return Error::OutOfResources;
    inside.data = outside.data;
    inside.capacity = outside.dynamism == Dynamism::Static ? static_cast<uint32_t>(outside.numel()) : outside.capacity;
  }

  ErrorRecord record;
  Arena& temp = ctx.temp_memory();
  const size_t used = temp.used;
  KernelContext inner(graph.values, nullptr, temp, record);
  inner.parallel = ctx.parallel;
  inner.random = ctx.random;
  for (uint32_t i = 0; i < graph.num_calls; ++i) {
    const xnnpack::Call& call = graph.calls[i];
    const uint32_t id = ctx.watched() ? graph.handles[call.node] : 0;
    if (ctx.watched() && (i == 0 || graph.calls[i - 1].node != call.node)) ctx.event(id, true);
    inner.set_arguments(call.args);
    call.function(inner);
    temp.used = used;
    if (ctx.watched() && (i + 1 == graph.num_calls || graph.calls[i + 1].node != call.node)) ctx.event(id, false);
    if (record.check == Check::None) continue;
    if (record.check == Check::KernelTemp) {
      ctx.fail(record.check, record.a, record.b);
    } else {
      ctx.fail(Check::GraphRun, call.node, static_cast<int64_t>(record.check));
    }
    return record.error();
  }
  for (uint32_t i = 0; i < graph.num_outputs; ++i) {
    const External& output = graph.outputs[i];
    Tensor& outside = ctx.tensor(static_cast<int>(output.position));
    if (!give_sizes(ctx, *graph.values.payloads[output.value].tensor, outside)) return Error::InvalidArgument;
  }
  return Error::Ok;
}

}  // namespace

const Backend kXnnpackBackend = {"XnnpackBackend", nullptr, xnnpack_init, xnnpack_execute};

}  // namespace etir
