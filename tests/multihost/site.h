#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/lab/lab.h"
#include "tests/support/environment.h"
#include "tests/support/wait.h"

namespace meshbus::test {

// A host that is away is named so soon (spec 8.7) ...
inline constexpr std::chrono::milliseconds told_in_time(5000);
// ... and what a machine as busy as this one may add.
inline constexpr std::chrono::milliseconds busy(3000);

using Words = std::vector<std::string>;

/// A lab whose first hosts run `meshbus host` on tcp; one more host is for launchers.
class Site {
 public:
  explicit Site(std::size_t count) : count_(count), lab(count + 1) {
    for (std::size_t i = 0; i < count; ++i) start_host(i);
    for (std::size_t i = 0; i < count; ++i) wait_ready(i);
  }
  void start_host(std::size_t index) {
    if (hosts_.size() <= index) hosts_.resize(index + 1);
    const Words words = {bin("meshbus"), "host",         "--bind",    address(index),
                         "--advertise",  address(index), "--insecure"};
    hosts_[index].reset(new Process(lab.host(index).start(words)));
  }
  void wait_ready(std::size_t index) { hosts_.at(index)->wait_for_output("\n", in_time); }
  std::string address(std::size_t index) const {
    return "tcp:" + lab.host(index).address() + ":7700";
  }
  std::string addresses() const {
    std::string all;
    for (std::size_t i = 0; i < count_; ++i) all += (i == 0 ? "" : ",") + address(i);
    return all;
  }
  /// Where launchers run.
  Lab::Host desk() const { return lab.host(count_); }
  Words run_words(const Words& words) const {
    Words all = {bin("meshbus"), "run", "--hosts", addresses()};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  Process& host(std::size_t index) { return *hosts_.at(index); }
  /// What runs on a host besides the host itself.
  std::vector<std::string> procs_on(std::size_t index, const std::string& mark) const {
    auto found = lab.host(index).processes();
    std::erase_if(found,
                  [&](const std::string& one) { return one.find(mark) == std::string::npos; });
    return found;
  }

 private:
  std::size_t count_;

 public:
  Lab lab;

 private:
  std::vector<std::unique_ptr<Process>> hosts_;
};

}  // namespace meshbus::test
