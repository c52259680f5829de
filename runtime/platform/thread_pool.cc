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

/// What a thread waits for in one breath, in instructions that tell the processor so: some tens of microseconds, as
/// long as it takes to wake a thread that sleeps. Loops that follow each other closely, those of the layers of a model,
/// find their workers awake.
constexpr int kSpins = 4096;
/// After so many the thread lets others run that have no processor.
constexpr int kSpinsBeforeYield = 256;

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ __volatile__("yield");
#endif
}

/// Whether `ready` has become true within `spins` looks at it.
template <typename Ready>
bool spin(int spins, const Ready& ready) {
  for (int i = 0; i < spins; ++i) {
    if (ready()) return true;
    relax();
    if (i % kSpinsBeforeYield == kSpinsBeforeYield - 1) std::this_thread::yield();
  }
  return ready();
}

/// One call of run(). Threads take parts until none is left.
struct Job {
  void (*body)(void*, int64_t, int64_t) = nullptr;
  void* context = nullptr;
  int64_t n = 0;
  int64_t part = 1;
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

/// The job is written while nobody is inside, then the gate opens; a worker goes in by counting itself, once for each
/// number of the gate. The caller closes the gate when no part is left, and goes on when the count is 0.
struct ThreadPool::State {
  static constexpr uint64_t kInside = (1u << 15) - 1;  ///< bits of the gate: workers that are inside
  static constexpr uint64_t kOpen = 1u << 15;
  static constexpr int kNumber = 16;  ///< the first bit of its number

  std::mutex busy;  ///< held by the call that uses the workers
  Job job;
  std::atomic<uint64_t> gate{0};
  std::atomic<bool> stop{false};
  int spins = 0;

  std::mutex mutex;  ///< of those that sleep, whose counts are read without it
  std::condition_variable wake, done;
  std::atomic<int> sleeping{0};
  std::atomic<bool> caller_sleeps{false};

  std::vector<std::thread> workers;

  void loop() {
    inside_worker = true;
    uint64_t seen = 0;
    const auto called = [&] {
      const uint64_t now = gate.load();
      return stop.load() || ((now & kOpen) != 0 && now >> kNumber != seen);
    };
    for (;;) {
      if (!spin(spins, called)) {
        std::unique_lock<std::mutex> lock(mutex);
        ++sleeping;
        wake.wait(lock, called);
        --sleeping;
      }
      if (stop.load()) return;
      uint64_t now = gate.load();
      bool joined = false;
      while (!joined && (now & kOpen) != 0 && now >> kNumber != seen) joined = gate.compare_exchange_weak(now, now + 1);
      if (!joined) continue;
      seen = now >> kNumber;
      job.work();
      const uint64_t left = gate.fetch_sub(1) - 1;
      if ((left & (kInside | kOpen)) == 0 && caller_sleeps.load()) {
        const std::lock_guard<std::mutex> lock(mutex);
        done.notify_one();
      }
    }
  }

  void open() {
    const uint64_t number = (gate.load(std::memory_order_relaxed) >> kNumber) + 1;
    gate.store(number << kNumber | kOpen);
    if (sleeping.load() == 0) return;
    // A worker that is about to sleep holds the lock until it does.
    const std::lock_guard<std::mutex> lock(mutex);
    wake.notify_all();
  }

  /// Workers that have not come by now find the gate closed; those inside finish their part.
  void close() {
    gate.fetch_and(~kOpen);
    const auto empty = [&] { return (gate.load() & kInside) == 0; };
    if (spin(spins, empty)) return;
    std::unique_lock<std::mutex> lock(mutex);
    caller_sleeps = true;
    done.wait(lock, empty);
    caller_sleeps = false;
  }
};

ThreadPool::ThreadPool(int threads) : state_(new State) {
  // Threads without a processor of their own must not keep one from those that work.
  if (threads <= static_cast<int>(std::thread::hardware_concurrency())) state_->spins = kSpins;
  for (int i = 1; i < std::min(threads, static_cast<int>(State::kInside)); ++i) {
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
  State& state = *state_;
  std::unique_lock<std::mutex> use(state.busy, std::defer_lock);
  if (part >= n || state.workers.empty() || inside_worker || !use.try_lock()) {
    body(context, 0, n);
    return;
  }
  state.job.body = body, state.job.context = context;
  state.job.n = n, state.job.part = part;
  state.job.next.store(0, std::memory_order_relaxed);
  state.open();
  // A body that runs a loop of its own must not wait for the lock that this call holds.
  inside_worker = true;
  state.job.work();
  inside_worker = false;
  state.close();
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
