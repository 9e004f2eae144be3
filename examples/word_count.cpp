// Word count: an actor in each of four procs on two hosts counts the words of its share of the
// files below a folder; the launcher adds up. One executable is both launcher and proc:
//
//     word_count DIR
#include <meshbus/actor.h>
#include <meshbus/client.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

using namespace meshbus;
using namespace std::chrono_literals;

namespace {

using Counts = std::map<std::string, std::uint64_t>;

/// Counts the words of every n-th file of a folder; n is the number of procs.
class WordCounter : public Actor {
 public:
  WordCounter(ActorContext& context, std::string_view folder) {
    // What the constructor throws (no such folder) is the error of spawn_actors().
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) files_.push_back(entry.path());
    }
    std::sort(files_.begin(), files_.end());
    const auto ranks = context.proc().world_size();
    std::erase_if(files_, [&, index = std::uint64_t{0}](const auto&) mutable {
      return index++ % ranks != context.rank();
    });
    on("count", &WordCounter::count);
  }

 private:
  /// "WORD COUNT" lines.
  std::string count(ActorContext&, const ActorMessage&) {
    Counts counts;
    for (const auto& file : files_) {
      std::ifstream in(file);
      std::string word;
      for (char c = 0; in.get(c);) {
        if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
          word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        } else if (!word.empty()) {
          ++counts[std::exchange(word, {})];
        }
      }
      if (!word.empty()) ++counts[word];
    }
    std::string lines;
    for (const auto& [word, times] : counts) lines += word + " " + std::to_string(times) + "\n";
    return lines;
  }

  std::vector<std::filesystem::path> files_;
};

Result<void> launch(const std::string& folder) {
  auto context = Context::create();
  if (!context) return fail(context.error());
  auto hosts = HostMesh::process(*context, *Extent::parse("host=2"));
  if (!hosts) return fail(hosts.error());
  auto procs = hosts->spawn("counters", *Extent::parse("proc=2"),
                            {.kind = ProcKind::mesh});  // no command: this very program
  if (!procs) return fail(procs.error());
  auto counters = procs->spawn_actors("word_counter", "words", folder);
  if (!counters) return fail(counters.error());

  const auto answers = counters->call("count", "", 60s);
  if (!answers) return fail(answers.error());
  Counts total;
  for (const auto& answer : *answers) {
    if (!answer) return fail(answer.error());
    std::istringstream lines(*answer);
    std::uint64_t times = 0;
    for (std::string word; lines >> word >> times;) total[word] += times;
  }
  std::vector<std::pair<std::string, std::uint64_t>> ranked(total.begin(), total.end());
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (std::size_t i = 0; i < std::min<std::size_t>(5, ranked.size()); ++i)
    std::cout << ranked[i].second << " " << ranked[i].first << "\n";

  if (auto stopped = counters->stop(); !stopped) return fail(stopped.error());
  if (auto stopped = procs->stop(); !stopped) return fail(stopped.error());
  if (auto down = hosts->shutdown(); !down) return fail(down.error());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const auto as_proc =
      bootstrap(ProcProgram().actor<WordCounter>("word_counter"));  // never returns in a proc
  if (argc != 2) return std::cerr << "usage: word_count DIR\n", 2;
  const auto done = as_proc.error().code() == ErrorCode::not_exist ? launch(argv[1]) : as_proc;
  if (done) return 0;
  std::cerr << "word_count: " << done.error().to_string() << std::endl;
  return 1;
}
