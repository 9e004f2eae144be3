#include "tests/integration/hands/work.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace meshbus::test {

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Words Work::run_words(const Words& more, const std::string& shell) const {
  Words all = {"run",    "--hosts", host.address(), "-n", std::to_string(ranks),
               "--name", "work",    "--keep-going"};
  all.insert(all.end(), more.begin(), more.end());
  all.insert(all.end(), {"--", "sh", "-c", shell});
  return all;
}

Work::Work(const std::string& shell, const Words& options, const Words& host_options,
           const ProcessOptions& run_options)
    : host(host_options), run(cli(run_words(options, "echo up; " + shell)), run_options) {
  const bool are_up = wait_until(
      [this] {
        run.is_running();
        const auto lines = lines_of(run.out());
        return std::count_if(lines.begin(), lines.end(),
                             [](const std::string& line) { return line.ends_with("up"); }) >= ranks;
      },
      in_time);
  INFO(run.describe());
  REQUIRE(are_up);
}

Words Work::exec_words(const std::string& at, const Words& command, const Words& options) const {
  Words all = {"exec", "--hosts", host.address()};
  all.insert(all.end(), options.begin(), options.end());
  all.insert(all.end(), {at, "--"});
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

Finished Work::exec(const std::string& at, const Words& command, const ProcessOptions& process,
                    const Words& options) const {
  return run_cli(exec_words(at, command, options), process);
}

std::vector<nlohmann::json> Work::audited(const std::string& verb, const std::string& what) const {
  const auto done = run_cli({"audit", "--hosts", host.address(), "--json"});
  INFO(done.err);
  REQUIRE(done.status == ExitStatus::exited(0));
  std::vector<nlohmann::json> found;
  const auto json = parse_json(done.out);
  for (const auto& entry : json.at("entries")) {
    if (entry.at("verb") == verb && says(entry.at("what").get<std::string>(), what))
      found.push_back(entry);
  }
  return found;
}

}  // namespace meshbus::test
