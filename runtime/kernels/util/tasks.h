// Tasks that threads take one at a time, in order: for loops whose tasks are few and take long, where parts of several
// (KernelContext::parallel_for) would leave a thread with nothing to do while another one has all of its last part
// left.
//
//   Tasks panels(count);
//   for_each_thread(ctx, [&] {
//     for (int64_t p = panels.take(); p >= 0; p = panels.take()) multiply(p);
//   });
//
// What is set up for the first task of a thread serves its others, and what comes next is known while one is worked on.
#pragma once

#include <atomic>

#include "kernels/kernel.h"

namespace etir {

class Tasks {
 public:
  explicit Tasks(int64_t count) : count_(count) {}

  /// The number of a task that nobody has taken; -1: none is left.
  int64_t take() {
    const int64_t next = next_.fetch_add(1, std::memory_order_relaxed);
    return next < count_ ? next : -1;
  }

 private:
  alignas(64) std::atomic<int64_t> next_{0};
  int64_t count_;
};

/// Calls work() as often as there are threads, on as many of them as there are; it takes what it works on.
template <typename Work>
void for_each_thread(KernelContext& ctx, const Work& work) {
  ctx.parallel_for(ctx.parallel.threads, 1, [&](int64_t, int64_t) { work(); });
}

}  // namespace etir
