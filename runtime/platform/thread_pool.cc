#include "platform/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>
#if defined(__linux__)
#include <sched.h>
#endif

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

/// The processor that a thread runs on; -1: not known.
int processor() {
#if defined(__linux__)
  return sched_getcpu();
#else
  return -1;
#endif
}

/// Moves the calling thread from a processor to another one that it may run on. False: there is none.
bool leave(int processor) {
#if defined(__linux__)
  cpu_set_t all, others;
  if (processor < 0 || processor >= CPU_SETSIZE || sched_getaffinity(0, sizeof(all), &all) != 0) return false;
  others = all;
  CPU_CLR(processor, &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof(others), &others) != 0) return false;
  sched_setaffinity(0, sizeof(all), &all);  // it stays where it is, and may be moved as before
  return true;
#else
  (void)processor;
  return false;
#endif
}

/// What is left of a thread's parts: the number of the call, the parts' end and the next one, in one word. A thread
/// that takes a part by exchanging the word works for that call and no other.
struct Share {
  static constexpr int kBits = 14;  ///< of a part
  static constexpr uint64_t kMost = (1u << kBits) - 1;

  static constexpr uint64_t next(uint64_t share) { return share & kMost; }
  static constexpr uint64_t end(uint64_t share) { return share >> kBits & kMost; }
  static constexpr bool left(uint64_t share) { return next(share) < end(share); }
  static constexpr uint64_t of(uint64_t call, uint64_t begin, uint64_t end) {
    return call << 2 * kBits | end << kBits | begin;
  }
  static constexpr uint64_t without_first(uint64_t share) { return share + 1; }
  static constexpr uint64_t without_last(uint64_t share) { return share - (uint64_t{1} << kBits); }
};

constexpr int kMostThreads = static_cast<int>(Share::kMost / kPartsPerThread);

}  // namespace

/// A call writes for each thread what is to be done, then its share of the parts, which follow each other. What it
/// writes is read until the last part has ended, which it waits for.
///
/// A thread does its own parts from the first one on, then the last ones of others. So it reads and writes runs of
/// memory, which its caches may hold since the loop before, and weights that were fetched ahead for the part after one
/// are its own. Each of the lines below is written by one thread after the other: to hand a line over takes about as
/// long as the shortest loops that are worth a second thread, and a call takes three of that.
struct ThreadPool::State {
  static constexpr size_t kLine = 64;

  /// What a thread looks at while it waits; the caller's is the first one.
  struct alignas(kLine) Line {
    std::atomic<uint64_t> share{0};
    std::atomic<bool> stop{false};
    std::atomic<int> caller{-1};  ///< its processor
    void (*body)(void*, int64_t, int64_t) = nullptr;
    void* context = nullptr;
    int64_t n = 0;
    int64_t part = 1, longer = 0;  ///< items of a part, and how many parts, the first ones, have one more

    void run_part(uint64_t index) const {
      const auto number = static_cast<int64_t>(index);
      const int64_t begin = number * part + std::min(number, longer);
      body(context, begin, std::min(n, begin + part + (number < longer ? 1 : 0)));
    }
  };
  std::vector<Line> lines;

  // What the caller looks at while it waits.
  alignas(kLine) std::atomic<uint64_t> ended{0};  ///< parts that workers have ended

  alignas(kLine) std::mutex busy;  ///< held by the call that uses the workers
  uint64_t call = 0;
  int spins = 0;
  std::mutex mutex;  ///< of those that sleep, whose counts are read without it
  std::condition_variable wake, done;
  std::atomic<int> sleeping{0};
  std::atomic<int> slept{-1};  ///< the processor on which a worker fell asleep last
  std::atomic<bool> caller_sleeps{false};

  std::vector<std::thread> workers;

  explicit State(int threads) : lines(static_cast<size_t>(threads)) {}

  /// Takes parts until none is left, as the thread of this number; how many it took.
  uint64_t work(size_t number) {
    uint64_t taken = 0;
    for (size_t i = 0; i < lines.size(); ++i) {
      Line& line = lines[(number + i) % lines.size()];
      uint64_t now = line.share.load();
      while (Share::left(now)) {
        const uint64_t rest = i == 0 ? Share::without_first(now) : Share::without_last(now);
        if (!line.share.compare_exchange_weak(now, rest)) continue;
        line.run_part(i == 0 ? Share::next(now) : Share::end(rest));
        ++taken;
        now = line.share.load();
      }
    }
    return taken;
  }

  void loop(size_t number) {
    inside_worker = true;
    // Linux wakes a thread where it slept if it finds no idle processor soon, and where most are busy most of the time,
    // it does not look for one: a worker may come to the caller's processor, while another one idles, and stay there
    // for many calls, each of which takes as long as on one thread.
    bool moves = spins > 0;
    const Line& own = lines[number];
    const auto called = [&] { return own.stop.load() || Share::left(own.share.load()); };
    for (;;) {
      if (!spin(spins, called)) {
        std::unique_lock<std::mutex> lock(mutex);
        slept = processor();
        ++sleeping;
        wake.wait(lock, called);
        --sleeping;
      }
      if (own.stop.load()) return;
      if (moves) {
        const int here = processor();
        if (here >= 0 && here == own.caller.load(std::memory_order_relaxed)) moves = leave(here);
      }
      const uint64_t taken = work(number);
      if (taken == 0) continue;
      ended += taken;
      if (caller_sleeps.load()) {
        const std::lock_guard<std::mutex> lock(mutex);
        done.notify_one();
      }
    }
  }

  /// Gives each thread its share of a call's parts. Returns when all have one.
  void open(uint64_t parts, const Line& what) {
    const int here = processor();
    ended.store(0, std::memory_order_relaxed);
    ++call;
    const auto threads = static_cast<uint64_t>(lines.size());
    const auto first = [&](uint64_t number) { return (parts * number + threads - 1) / threads; };
    for (uint64_t i = 0; i < threads; ++i) {
      Line& line = lines[i];
      line.caller.store(here, std::memory_order_relaxed);
      line.body = what.body, line.context = what.context;
      line.n = what.n, line.part = what.part, line.longer = what.longer;
      line.share.store(Share::of(call, first(i), first(i + 1)));
    }
    if (sleeping.load() == 0) return;
    {
      // A worker that is about to sleep holds the lock until it does.
      const std::lock_guard<std::mutex> lock(mutex);
      wake.notify_all();
    }
    // One that was woken here leaves, once it runs.
    if (spins > 0 && here >= 0 && slept.load(std::memory_order_relaxed) == here) std::this_thread::yield();
  }

  /// Waits until workers have ended as many parts as they took.
  void close(uint64_t taken) {
    const auto all = [&] { return ended.load() == taken; };
    if (spin(spins, all)) return;
    std::unique_lock<std::mutex> lock(mutex);
    caller_sleeps = true;
    done.wait(lock, all);
    caller_sleeps = false;
  }
};

ThreadPool::ThreadPool(int threads) : state_(new State(std::max(1, std::min(threads, kMostThreads)))) {
  // Threads without a processor of their own must not keep one from those that work.
  if (threads <= static_cast<int>(std::thread::hardware_concurrency())) state_->spins = kSpins;
  for (size_t i = 1; i < state_->lines.size(); ++i) {
    try {
      state_->workers.emplace_back([state = state_.get(), i] { state->loop(i); });
    } catch (const std::system_error&) {
      break;
    }
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    for (State::Line& line : state_->lines) line.stop = true;
  }
  state_->wake.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::threads() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::run(int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* context) {
  if (n <= 0) return;
  // As many parts for each thread, of the same size but for one item; where there are fewer than threads, as short as
  // they may be.
  const int64_t all = threads(), least = std::max(grain, int64_t{1});
  int64_t count = std::min(kPartsPerThread * all, n / least), part = least, longer = 0;
  if (count >= all) {
    count -= count % all;
    part = n / count, longer = n % count;
  } else {
    count = (n - 1) / part + 1;
  }
  State& state = *state_;
  std::unique_lock<std::mutex> use(state.busy, std::defer_lock);
  if (count == 1 || state.workers.empty() || inside_worker || !use.try_lock()) {
    body(context, 0, n);
    return;
  }
  State::Line what;
  what.body = body, what.context = context;
  what.n = n, what.part = part, what.longer = longer;
  state.open(static_cast<uint64_t>(count), what);
  // A body that runs a loop of its own must not wait for the lock that this call holds.
  inside_worker = true;
  const uint64_t own = state.work(0);
  inside_worker = false;
  state.close(static_cast<uint64_t>(count) - own);
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
