// How attention of many queries is shared out to tasks for AMX, and what of it AMX is for.
#pragma once

#include <limits>
#include <type_traits>

#include "kernels/llm/attention_amx.h"
#include "kernels/util/tasks.h"

namespace etir::llm {

#if ETIR_ATTENTION_AMX

/// Of how many parts numbers are taken: so many as keys and values are sums of, which have one type. Queries of
/// bfloat16 are one part themselves; weights beside them are taken as two, so that results are as near as their own
/// type is.
inline int parts_of(const Attention& task) {
  const ScalarType of_queries = task.query.tensor->dtype, of_keys = task.key.tensor->dtype;
  if (of_keys == ScalarType::BFloat16) return of_queries == ScalarType::BFloat16 ? 2 : 1;
  return of_keys == ScalarType::Half ? 2 : 3;
}

template <typename Function>
auto with_parts(int parts, const Function& function) {
  if (parts == 1) return function(std::integral_constant<int, 1>());
  return parts == 2 ? function(std::integral_constant<int, 2>()) : function(std::integral_constant<int, 3>());
}

/// Attention of many queries; false where they are few, not of the form that this is for, or the processor lacks it.
inline bool run_tiles(KernelContext& ctx, const Attention& task) {
  constexpr int64_t kFew = 24, kLeast = 48, kTasks = 16;
  const int64_t dim = task.query.dim, repeats = task.query.heads / task.key.heads;
  if (task.mask != nullptr || dim != task.value.dim || !takes_panels(task) || dim % kTileRows != 0 ||
      task.query.positions * repeats < kFew || task.keys > std::numeric_limits<int32_t>::max() || !has_parts()) {
    return false;
  }
  const int parts = parts_of(task);
  const int64_t room = with_parts(parts, [&](auto count) { return TileAttention<count>::most_rows(dim); });
  if (room <= 0) return false;  // vectors are too wide
  const int64_t groups = (repeats + room - 1) / room, heads = (repeats + groups - 1) / groups;
  const int64_t others = task.batches * task.key.heads * groups;
  // As many positions as there is room for, but enough tasks for threads to share them evenly; whole strips.
  const int64_t share = max64(task.query.positions * heads * others / kTasks, kLeast);
  const int64_t strips = (share + kStrip - 1) / kStrip;
  const int64_t some = max64(min64(strips * kStrip, room) / heads, 1);
  const int64_t blocks = (task.query.positions + some - 1) / some;
  Tasks tasks(others * blocks);
  for_each_thread(ctx, [&] {
    for (int64_t index = tasks.take(); index >= 0; index = tasks.take()) {
      const int64_t other = index / blocks, group = other % groups;
      QueryRows rows;
      rows.batch = other / groups / task.key.heads;
      rows.key_head = other / groups % task.key.heads;
      rows.head = rows.key_head * repeats + group * heads;
      rows.heads = min64(heads, repeats - group * heads);
      // Tasks of a head follow each other, since they have keys in common; late positions first, which have more.
      rows.position = (blocks - 1 - index % blocks) * some;
      rows.positions = min64(some, task.query.positions - rows.position);
      if (with_parts(parts, [&](auto count) { return attend<count>(task, rows); })) continue;
      for (int64_t h = 0; h < rows.heads; ++h) {
        run_panels(task, rows.batch, rows.head + h, rows.position, rows.positions);
      }
    }
  });
  return true;
}

#else

inline bool run_tiles(KernelContext&, const Attention&) { return false; }

#endif

}  // namespace etir::llm
