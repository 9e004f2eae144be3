#pragma once

#include <doctest/doctest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "meshbus/client.h"
#include "tests/world/command_line.h"

/// What the tests of the client library share: launchers that are this test program.
namespace meshbus::test {

/// The value; without one the test case fails and says why.
template <typename T>
T must(Result<T> result) {
  if (!result) FAIL(result.error().to_string());
  return std::move(*result);
}

inline Extent extent(std::string_view text) {
  return must(Extent::parse(text));
}

inline ContextOptions quick(std::vector<std::pair<std::string, std::string>> settings = {}) {
  return {.settings = std::move(settings)};
}

/// The meshbus program of this build.
inline HostOptions of_this_build() {
  return {.program = bin("meshbus"), .ready_limit = in_time};
}

inline ProcSpec shell(const std::string& script) {
  return {.command = {"sh", "-c", script}};
}

/// What handlers have heard, for other threads to look at.
class Heard {
 public:
  Handlers handlers() {
    return {.on_failure = [this](const RankReport& rank) { add(failures_, rank); },
            .on_output = [this](std::uint64_t rank, Stream stream,
                                std::string_view bytes) { add_output(rank, stream, bytes); },
            .on_state = [this](const RankReport& rank) { add(states_, rank); },
            .on_end =
                [this](const MeshOutcome&) {
                  const std::lock_guard lock(mutex_);
                  ++ends_;
                }};
  }
  std::vector<RankReport> failures() const {
    const std::lock_guard lock(mutex_);
    return failures_;
  }
  std::vector<RankReport> states() const {
    const std::lock_guard lock(mutex_);
    return states_;
  }
  std::string output(std::uint64_t rank, Stream stream = Stream::out) const {
    const std::lock_guard lock(mutex_);
    const auto found = output_.find({rank, stream});
    return found == output_.end() ? "" : found->second;
  }
  int ends() const {
    const std::lock_guard lock(mutex_);
    return ends_;
  }

 private:
  void add(std::vector<RankReport>& list, const RankReport& rank) {
    const std::lock_guard lock(mutex_);
    list.push_back(rank);
  }
  void add_output(std::uint64_t rank, Stream stream, std::string_view bytes) {
    const std::lock_guard lock(mutex_);
    output_[{rank, stream}].append(bytes);
  }

  mutable std::mutex mutex_;
  std::vector<RankReport> failures_;
  std::vector<RankReport> states_;
  std::map<std::pair<std::uint64_t, Stream>, std::string> output_;
  int ends_ = 0;
};

}  // namespace meshbus::test
