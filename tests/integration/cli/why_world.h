// Runs, and what `meshbus why` tells of them.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "tests/world/command_line.h"

namespace meshbus::test::why_world {

using namespace std::chrono_literals;
using nlohmann::json;

inline json why(const std::string& hosts, const Words& more = {}) {
  Words words = {"why", "--json", "--hosts", hosts};
  words.insert(words.end(), more.begin(), more.end());
  const auto finished = run_cli(words);
  INFO(finished.err);
  REQUIRE(finished.status == ExitStatus::exited(0));
  return parse_json(finished.out);
}

/// The ends of ranks in a story, by rank; each once.
inline std::map<int, json> ends_of(const std::string& hosts, const std::string& mesh) {
  std::map<int, json> ends;
  const auto story = why(hosts, {mesh});
  for (const auto& event : story.at("events")) {
    if (event.at("end").is_null()) continue;
    // Ranks with the same end are told as one.
    const auto text = event.at("ranks").get<std::string>();
    for (int rank = 0; rank < 64; ++rank) {
      Words parts;
      for (std::size_t begin = 0; begin <= text.size();) {
        const auto comma = std::min(text.find(',', begin), text.size());
        parts.push_back(text.substr(begin, comma - begin));
        begin = comma + 1;
      }
      for (const auto& part : parts) {
        const auto dash = part.find('-');
        const int first = std::stoi(part);
        const int last = dash == std::string::npos ? first : std::stoi(part.substr(dash + 1));
        if (rank < first || rank > last) continue;
        CHECK_FALSE(ends.contains(rank));
        ends[rank] = event.at("end");
      }
    }
  }
  return ends;
}

/// A run on standing hosts that is waited for.
inline Finished run_on(const std::string& hosts, const Words& options, const std::string& script) {
  Words words = {"run", "--hosts", hosts, "--stdin", "none"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", "sh", "-c", script});
  return run_cli(words);
}

inline std::filesystem::path log_of(const StandingHost& host) {
  return std::filesystem::path(host.ready().at("run_dir").get<std::string>()) / "events.jsonl";
}

/// A run whose ranks sleep, all of them up.
struct SleepingRanks {
  std::string sleep = own_sleep();
  Process process;
  SleepingRanks(const std::string& hosts, const Words& options, int ranks,
                const std::string& before = "")
      : process(words(hosts, options, ranks, before)) {
    wait_until(
        [&] {
          return sleepers(sleep).size() == static_cast<std::size_t>(ranks) || !process.is_running();
        },
        in_time);
    INFO(process.describe());
    REQUIRE(sleepers(sleep).size() == static_cast<std::size_t>(ranks));
  }
  Words words(const std::string& hosts, const Words& options, int ranks,
              const std::string& before) const {
    Words all = {"run", "--hosts", hosts, "--stdin", "none", "-n", std::to_string(ranks)};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", "sh", "-c", before + "exec " + sleep});
    return cli(all);
  }
};

}  // namespace meshbus::test::why_world
