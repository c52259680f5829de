// Every index is worked on once, whatever the number of threads, the grain, and who calls at the same time.
#include "platform/thread_pool.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
#if defined(__linux__)
#include <sched.h>
#endif

namespace {

void check(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "failed: %s\n", what);
    std::exit(1);
  }
}

struct Loop {
  std::vector<std::atomic<int>> visits;
  std::atomic<int64_t> shortest{INT64_MAX}, longest{0}, parts{0};
  explicit Loop(int64_t n) : visits(static_cast<size_t>(n)) {}
  static void body(void* context, int64_t begin, int64_t end) {
    Loop& self = *static_cast<Loop*>(context);
    for (int64_t i = begin; i < end; ++i) ++self.visits[static_cast<size_t>(i)];
    const int64_t length = end - begin;
    ++self.parts;
    for (int64_t seen = self.longest; length > seen && !self.longest.compare_exchange_weak(seen, length);) continue;
    if (end == static_cast<int64_t>(self.visits.size())) return;
    for (int64_t seen = self.shortest; length < seen && !self.shortest.compare_exchange_weak(seen, length);) continue;
  }
};

void covers_once(etir::ThreadPool& pool, int64_t n, int64_t grain) {
  Loop loop(n);
  pool.run(n, grain, Loop::body, &loop);
  for (const std::atomic<int>& count : loop.visits) check(count == 1, "an index was not visited once");
  check(loop.shortest >= grain, "a part is shorter than the grain");
  if (loop.parts <= 1 || n / grain < pool.threads()) return;
  check(loop.parts % pool.threads() == 0, "threads have parts in equal numbers");
  check(loop.longest - loop.shortest <= 1, "parts are of the same size but for one item");
}

/// Each thread begins with its own parts: the caller with the first ones, a worker with those of the second half.
void parts_of_a_thread_follow_each_other() {
  struct Halves {
    std::thread::id caller = std::this_thread::get_id();
    std::atomic<int64_t> first[2]{{-1}, {-1}};
    static void body(void* context, int64_t begin, int64_t) {
      Halves& self = *static_cast<Halves*>(context);
      const int mine = std::this_thread::get_id() != self.caller;
      int64_t none = -1;
      self.first[mine].compare_exchange_strong(none, begin);
      for (int i = 0; i < 5000 && self.first[1 - mine] < 0; ++i) {  // the other one begins, too
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  } halves;
  etir::ThreadPool pool(2);
  pool.run(800, 1, Halves::body, &halves);
  check(halves.first[0] == 0, "the caller has the first part");
  check(halves.first[1] == 400, "the worker has those of the second half");
}

#if defined(__linux__)
/// A worker that comes to the caller's processor leaves it; afterwards it may run on all of them as before.
void workers_may_run_anywhere() {
  struct Masks {
    std::thread::id caller = std::this_thread::get_id();
    cpu_set_t all;
    std::atomic<int> others{0}, changed{0};
    static void body(void* context, int64_t, int64_t) {
      Masks& self = *static_cast<Masks*>(context);
      if (std::this_thread::get_id() == self.caller) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));  // a worker has time to come
        return;
      }
      cpu_set_t mine;
      ++self.others;
      if (sched_getaffinity(0, sizeof(mine), &mine) != 0 || !CPU_EQUAL(&mine, &self.all)) ++self.changed;
    }
  } masks;
  check(sched_getaffinity(0, sizeof(masks.all), &masks.all) == 0, "affinity");
  etir::ThreadPool pool(2);
  int first = 0;
  while (!CPU_ISSET(first, &masks.all)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  check(sched_setaffinity(0, sizeof(one), &one) == 0, "the caller stays on a processor");
  for (int i = 0; i < 100; ++i) {
    pool.run(8, 1, Masks::body, &masks);
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 2));  // the worker sleeps, or waits awake
  }
  check(sched_setaffinity(0, sizeof(masks.all), &masks.all) == 0, "affinity as before");
  check(masks.others > 0, "the worker came");
  check(masks.changed == 0, "a worker may not run where it might before");
}
#endif

}  // namespace

int main() {
#if defined(__linux__)
  workers_may_run_anywhere();
#endif
  parts_of_a_thread_follow_each_other();
  for (const int threads : {1, 2, 5}) {
    etir::ThreadPool pool(threads);
    check(pool.threads() == threads, "number of threads");
    check((pool.parallel_for().run != nullptr) == (threads > 1), "one thread needs no pool");
    for (const int64_t n : {0, 1, 2, 7, 36, 64, 1000}) {
      for (const int64_t grain : {1, 3, 100}) covers_once(pool, n, grain);
    }
    for (int i = 0; i < 2000; ++i) covers_once(pool, 16, 1);
  }
  // Two callers at once: one gets the workers, the other runs alone.
  etir::ThreadPool pool(3);
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c) {
    callers.emplace_back([&pool] {
      for (int i = 0; i < 2000; ++i) covers_once(pool, 50, 2);
    });
  }
  for (std::thread& caller : callers) caller.join();
  // A loop inside a loop.
  struct Nested {
    etir::ThreadPool* pool;
    std::atomic<int> count{0};
  } nested{&pool, {}};
  pool.run(
      20, 1,
      [](void* context, int64_t begin, int64_t end) {
        Nested& outer = *static_cast<Nested*>(context);
        for (int64_t i = begin; i < end; ++i) {
          outer.pool->run(
              10, 1,
              [](void* inner, int64_t from, int64_t to) {
                static_cast<Nested*>(inner)->count += static_cast<int>(to - from);
              },
              &outer);
        }
      },
      &nested);
  check(nested.count == 200, "nested loops");
  std::puts("ok");
}
