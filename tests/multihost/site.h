#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/lab/lab.h"
#include "tests/support/environment.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait.h"

namespace meshbus::test {

// A host that is away is named so soon (spec 8.7) ...
inline constexpr std::chrono::milliseconds told_in_time(5000);
// ... and what a machine as busy as this one may add.
inline constexpr std::chrono::milliseconds busy(3000);

using Words = std::vector<std::string>;

/// Without keys all that reach a host may do everything there (`--insecure`).
enum class WithKeys : bool { no, yes };

/// A lab whose first hosts run `meshbus host` on tcp; one more host is for launchers.
class Site {
 public:
  explicit Site(std::size_t count, WithKeys with_keys = WithKeys::no)
      : count_(count), with_keys_(with_keys == WithKeys::yes), lab(count + 1) {
    if (with_keys_) {
      for (std::size_t i = 0; i < count; ++i) make_key("host", lab.host(i).address());
      make_key("operator", "alice");
    }
    for (std::size_t i = 0; i < count; ++i) start_host(i);
    for (std::size_t i = 0; i < count; ++i) wait_ready(i);
  }
  void start_host(std::size_t index) {
    if (hosts_.size() <= index) hosts_.resize(index + 1);
    Words words = {bin("meshbus"), "host", "--bind", address(index), "--advertise", address(index)};
    if (!with_keys_) words.emplace_back("--insecure");
    hosts_[index].reset(new Process(lab.host(index).start(words, keys())));
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
  /// For what runs at the desk: the key of an operator, where there are keys.
  ProcessOptions operator_options() const {
    auto options = keys();
    if (with_keys_) options.environment.emplace_back("MESHBUS_KEYS_OWN", keys_ / "alice.key");
    return options;
  }
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
  ProcessOptions keys() const {
    if (!with_keys_) return {};
    return {.environment = {{"MESHBUS_KEYS_DIRECTORY", keys_.path().string()}}};
  }
  void make_key(const std::string& role, const std::string& name) const {
    const auto made =
        desk().run({bin("meshbus"), "keygen", "--dir", keys_.path().string(), role, name}, in_time);
    INFO(made.err);
    REQUIRE(made.status == ExitStatus::exited(0));
  }

  std::size_t count_;
  bool with_keys_;
  TempDir keys_;

 public:
  Lab lab;

 private:
  std::vector<std::unique_ptr<Process>> hosts_;
};

}  // namespace meshbus::test
