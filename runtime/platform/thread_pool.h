// Threads for ParallelFor on hosts that have them. Bare-metal builds leave this file out.
//
// A pool has a fixed number of workers. After a call they look for the next one for some tens of microseconds, then
// they sleep; where there are more threads than processors, they sleep at once. One call at a time uses them: a second
// one that comes at the same time, or from inside a worker, runs in its own thread, so that nothing ever waits for a
// busy pool and nested loops cannot deadlock.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/kernel.h"

namespace etir {

class ThreadPool {
 public:
  /// A pool that works on `threads` threads, the calling one among them. 1 makes none; where the system refuses a
  /// thread, the pool has fewer.
  explicit ThreadPool(int threads);
  /// Waits for the workers to end; no run() may be in progress.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Threads that run() works on, the calling one among them.
  int threads() const;
  /// Calls body(context, begin, end) for parts of [0, n) of at least `grain` items (the last may be shorter), which
  /// cover it exactly; returns when all calls have returned.
  void run(int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* context);
  /// What a method is given to use the pool, which must outlive it. With one thread, the empty one.
  ParallelFor parallel_for();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace etir
