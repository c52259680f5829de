#include "llm/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace etir {
namespace llm {

bool Sampling::check(Failure* failure) const {
  const auto wrong = [failure](const char* what) { return failure->set(Cause::SamplingRange, what); };
  if (!(temperature >= 0 && temperature <= 100)) return wrong("temperature has to be from 0 to 100");
  if (top_k < 0) return wrong("top_k has to be 0 or more");
  if (!(top_p > 0 && top_p <= 1)) return wrong("top_p has to be above 0 and at most 1");
  if (!(min_p >= 0 && min_p <= 1)) return wrong("min_p has to be from 0 to 1");
  if (!(repetition_penalty > 0 && repetition_penalty <= 100)) {
    return wrong("repetition_penalty has to be above 0 and at most 100");
  }
  if (repetition_window < 0) return wrong("repetition_window has to be 0 or more");
  return true;
}

double Sampler::uniform() {
  state_ += 0x9E3779B97F4A7C15u;
  uint64_t z = state_;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53;
}

bool Sampler::choose(const float* logits, size_t size, const std::vector<int32_t>& recent, const uint8_t* allowed,
                     int32_t* id, Failure* failure) {
  if (sampling_.repetition_penalty != 1 && sampling_.repetition_window > 0 && !recent.empty()) {
    scaled_.assign(logits, logits + size);
    const size_t count = std::min(recent.size(), static_cast<size_t>(sampling_.repetition_window));
    std::vector<int32_t> window(recent.end() - static_cast<ptrdiff_t>(count), recent.end());
    std::sort(window.begin(), window.end());
    window.erase(std::unique(window.begin(), window.end()), window.end());
    for (const int32_t token : window) {
      if (static_cast<size_t>(token) >= size) continue;
      float& logit = scaled_[static_cast<size_t>(token)];
      const float penalty = static_cast<float>(sampling_.repetition_penalty);
      logit = logit > 0 ? logit / penalty : logit * penalty;
    }
    logits = scaled_.data();
  }
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  float highest = kLeast;
  int32_t best = -1;
  for (size_t i = 0; i < size; ++i) {
    const float logit = logits[i];
    if (!(logit < std::numeric_limits<float>::infinity())) {
      return failure->set(Cause::NanLogits, "the logit of token " + std::to_string(i) + " is " +
                                                (std::isnan(logit) ? "not a number" : "infinite"));
    }
    if (logit > highest && (allowed == nullptr || allowed[i] != 0)) {
      highest = logit;
      best = static_cast<int32_t>(i);
    }
  }
  if (best < 0) return failure->set(Cause::NothingAllowed, "no token is possible here");
  if (sampling_.temperature == 0 || sampling_.top_k == 1) {
    *id = best;
    return true;
  }
  candidates_.clear();
  for (size_t i = 0; i < size; ++i) {
    if (logits[i] == kLeast || (allowed != nullptr && allowed[i] == 0)) continue;
    candidates_.push_back({logits[i], static_cast<int32_t>(i), 0});
  }
  // Ties go to the smaller id, so that the order is one on all machines.
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  const size_t top_k = static_cast<size_t>(sampling_.top_k);
  if (top_k > 0 && top_k < candidates_.size()) {
    std::nth_element(candidates_.begin(), candidates_.begin() + sampling_.top_k - 1, candidates_.end(), before);
    candidates_.resize(top_k);
  }
  double sum = 0;
  for (Candidate& candidate : candidates_) {
    candidate.weight = std::exp((static_cast<double>(candidate.logit) - highest) / sampling_.temperature);
    sum += candidate.weight;
  }
  size_t kept = candidates_.size();
  if (sampling_.top_p < 1) {
    const auto after = [&before](const Candidate& a, const Candidate& b) { return before(b, a); };
    std::make_heap(candidates_.begin(), candidates_.end(), after);
    double mass = 0;
    // The most likely are popped to the end, one by one.
    for (kept = 0; kept < candidates_.size() && mass < sampling_.top_p * sum; ++kept) {
      std::pop_heap(candidates_.begin(), candidates_.end() - static_cast<ptrdiff_t>(kept), after);
      mass += candidates_[candidates_.size() - 1 - kept].weight;
    }
    candidates_.erase(candidates_.begin(), candidates_.end() - static_cast<ptrdiff_t>(kept));
  }
  if (sampling_.min_p > 0) {
    // The highest weight is 1.
    const auto unlikely = [this](const Candidate& candidate) { return candidate.weight < sampling_.min_p; };
    candidates_.erase(std::remove_if(candidates_.begin(), candidates_.end(), unlikely), candidates_.end());
  }
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  sum = 0;
  for (const Candidate& candidate : candidates_) sum += candidate.weight;
  double at = uniform() * sum;
  *id = candidates_.back().id;
  for (const Candidate& candidate : candidates_) {
    if ((at -= candidate.weight) < 0) {
      *id = candidate.id;
      break;
    }
  }
  return true;
}

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  stops_.erase(std::remove(stops_.begin(), stops_.end(), ""), stops_.end());
}

std::string StopStrings::push(std::string_view text) {
  if (found_) return "";
  held_ += text;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    found_ = true;
    std::string answer = held_.substr(0, first);
    held_.clear();
    return answer;
  }
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (size_t size = std::min(stop.size() - 1, held_.size()); size > keep; --size) {
      if (held_.compare(held_.size() - size, size, stop, 0, size) == 0) keep = size;
    }
  }
  std::string answer = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return answer;
}

std::string StopStrings::flush() {
  std::string answer;
  std::swap(answer, held_);
  return answer;
}

}  // namespace llm
}  // namespace etir
