#include "client/src/allocate/inner_talk.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

namespace meshbus {
namespace {

/// More than a ready line has, or the list of all hosts.
constexpr std::size_t kLongestLine = 64 * 1024;

std::string string_of(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

void InnerTalk::hear(std::uint64_t rank, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (is_closed_ || rank >= ranks_.size()) return;
  auto& one = ranks_[rank];
  one.text.append(bytes);
  for (auto end = one.text.find('\n'); end != std::string::npos; end = one.text.find('\n')) {
    take_line(one, one.text.substr(0, end));
    one.text.erase(0, end + 1);
  }
  // Whatever that is, it is none of ours.
  if (one.text.size() > kLongestLine) one.text.clear();
  changed_.notify_all();
}

void InnerTalk::take_line(Rank& rank, const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  // A wrapper may greet.
  if (!json.is_object() || !rank.problem.empty()) return;
  if (auto error = string_of(json, "error"); !error.empty()) {
    rank.problem = std::move(error);
  } else if (auto address = string_of(json, "address"); !address.empty()) {
    rank.address = std::move(address);
  } else if (const auto host = string_of(json, "host"); !host.empty()) {
    if (const auto parsed = HostAddr::parse(host)) {
      rank.host = *parsed;
    } else {
      rank.problem = "its ready line is not understood: " + line;
    }
  }
}

void InnerTalk::note_problem(std::uint64_t rank, std::string problem) {
  const std::lock_guard lock(mutex_);
  if (is_closed_ || rank >= ranks_.size() || !ranks_[rank].problem.empty()) return;
  ranks_[rank].problem = std::move(problem);
  changed_.notify_all();
}

void InnerTalk::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
}

bool InnerTalk::wait(Wanted wanted, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const auto have_all = [&] {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [&](const Rank& rank) { return rank.has(wanted) && rank.problem.empty(); });
  };
  changed_.wait_until(lock, deadline, [&] {
    return have_all() || std::any_of(ranks_.begin(), ranks_.end(),
                                     [](const Rank& rank) { return !rank.problem.empty(); });
  });
  return have_all();
}

std::string InnerTalk::address(std::uint64_t rank) const {
  const std::lock_guard lock(mutex_);
  return ranks_[rank].address;
}

std::optional<HostAddr> InnerTalk::host(std::uint64_t rank) const {
  const std::lock_guard lock(mutex_);
  return ranks_[rank].host;
}

std::string InnerTalk::problem(std::uint64_t rank) const {
  const std::lock_guard lock(mutex_);
  return ranks_[rank].problem;
}

}  // namespace meshbus
