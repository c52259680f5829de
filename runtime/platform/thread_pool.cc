#include "platform/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace etir {

namespace {

/// Parts that each thread gets on average: more even out threads that are slowed down by others.
constexpr int64_t kPartsPerThread = 4;

thread_local bool inside_worker = false;

/// One call of run(). Threads take parts until none is left.
struct Job {
  void (*body)(void*, int64_t, int64_t);
  void* context;
  int64_t n;
  int64_t part;
  std::atomic<int64_t> next{0};

  void work() {
    for (;;) {
      const int64_t begin = next.fetch_add(part, std::memory_order_relaxed);
      if (begin >= n) return;
      body(context, begin, std::min(n, begin + part));
    }
  }
};

}  // namespace

struct ThreadPool::State {
  std::mutex busy;  ///< held by the call that uses the workers

  std::mutex mutex;  ///< guards what follows
  std::condition_variable wake, done;
  Job* job = nullptr;
  uint64_t generation = 0;  ///< counts jobs: a worker joins each at most once
  int working = 0;          ///< workers inside the current job
  bool stop = false;

  std::vector<std::thread> workers;

  void loop() {
    inside_worker = true;
    uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return stop || (job != nullptr && generation != seen); });
      if (stop) return;
      seen = generation;
      Job* const current = job;
      ++working;
      lock.unlock();
      current->work();
      lock.lock();
      if (--working == 0) done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int threads) : state_(new State) {
  for (int i = 1; i < threads; ++i) {
    try {
      state_->workers.emplace_back([state = state_.get()] { state->loop(); });
    } catch (const std::system_error&) {
      break;
    }
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->stop = true;
  }
  state_->wake.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::threads() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::run(int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* context) {
  if (n <= 0) return;
  const int64_t parts = kPartsPerThread * threads();
  const int64_t part = std::max({grain, int64_t{1}, n / parts + (n % parts != 0)});
  std::unique_lock<std::mutex> use(state_->busy, std::defer_lock);
  if (part >= n || state_->workers.empty() || inside_worker || !use.try_lock()) {
    body(context, 0, n);
    return;
  }
  Job job{body, context, n, part};
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->job = &job;
    ++state_->generation;
  }
  state_->wake.notify_all();
  // A body that runs a loop of its own must not wait for the lock that this call holds.
  inside_worker = true;
  job.work();
  inside_worker = false;
  std::unique_lock<std::mutex> lock(state_->mutex);
  // Workers that have not woken up by now find no job; those inside finish their part.
  state_->job = nullptr;
  state_->done.wait(lock, [&] { return state_->working == 0; });
}

ParallelFor ThreadPool::parallel_for() {
  if (threads() == 1) return ParallelFor();
  ParallelFor result;
  result.run = [](void* pool, int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* context) {
    static_cast<ThreadPool*>(pool)->run(n, grain, body, context);
  };
  result.pool = this;
  result.threads = threads();
  return result;
}

}  // namespace etir
