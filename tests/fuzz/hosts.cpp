// Hosts and ranks as people write them: --hosts and hostfiles with ranges, contexts, destinations
// of ssh, selectors, and what `meshbus forward` takes. Answered in words, never by a crash.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "cli/hands/forward_text.h"
#include "cli/support/contexts.h"
#include "cli/support/host_list.h"
#include "cli/support/selector.h"
#include "common/address/host_range.h"
#include "common/base/unique_fd.h"
#include "meshbus/remote_hosts.h"
#include "tests/fuzz/support.h"

using namespace meshbus;
using namespace meshbus::cli;

namespace {

/// The number of hosts at either end of a list that are read again.
constexpr std::size_t kReadAgain = 100;

/// A folder of contexts of this process, with one context in it.
class Folder {
 public:
  Folder() {
    FUZZ_CHECK(::mkdtemp(path_.data()) != nullptr, path_);
    store.emplace(path_);
  }
  ~Folder() {
    ::unlink(store->path_of("one").c_str());
    ::rmdir(path_.c_str());
  }
  void write(std::string_view text) const {
    const UniqueFd file(
        ::open(store->path_of("one").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      std::abort();
  }

  std::optional<ContextStore> store;

 private:
  std::string path_ = "/tmp/meshbus-fuzz-XXXXXX";
};

void check_ranges(std::string_view text) {
  const auto hosts = expand_hosts(text);
  if (!hosts) {
    FUZZ_CHECK(!hosts.error().detail().empty(), text);
    return;
  }
  FUZZ_CHECK(hosts->size() <= kMostHostsListed, text);
  for (const auto& host : *hosts) FUZZ_CHECK(!host.empty(), text);
  // All of 65,536 would take seconds: the first and the last ones differ from the others the most.
  for (std::size_t i = 0; i < hosts->size(); ++i) {
    if (i == kReadAgain && hosts->size() > 2 * kReadAgain) i = hosts->size() - kReadAgain;
    const auto& host = (*hosts)[i];
    const auto again = expand_hosts(host);
    // Only brackets that are no range may be left.
    FUZZ_CHECK(again.has_value() && again->size() == 1 && again->front() == host, host);
  }
}

void check_hostfile(std::string_view text) {
  const auto words = parse_hostfile(text, "file");
  if (!words) {
    FUZZ_CHECK(words.error().detail().find("file") != std::string::npos, text);
    return;
  }
  HostList list{.words = *words, .source = "hostfile file"};
  if (is_ssh(list)) return;
  if (const auto hosts = parse_hosts(list)) FUZZ_CHECK(hosts->size() == words->size(), text);
}

void check_context(std::string_view text) {
  static const Folder folder;
  folder.write(text);
  const auto context = folder.store->read("one");
  if (!context) {
    FUZZ_CHECK(!context.error().detail().empty(), text);
    return;
  }
  FUZZ_CHECK(folder.store->write("one", *context).has_value(), text);
  const auto again = folder.store->read("one");
  FUZZ_CHECK(
      again.has_value() && again->hosts == context->hosts && again->settings == context->settings,
      text);
}

void check_selector(std::string_view text) {
  static const auto parsed =
      ProcMeshRef::parse("train-13Se1Maqzryj[6]:tcp:h1:1,tcp:h2:1@host=2/3,gpu=3/1");
  FUZZ_CHECK(parsed.has_value(), parsed.error().to_string());
  const auto& mesh = *parsed;
  const auto selector = Selector::parse(text);
  if (!selector) {
    FUZZ_CHECK(!selector.error().detail().empty(), text);
    return;
  }
  FUZZ_CHECK(selector->ranks.empty() || selector->slices.empty(), text);
  const auto views = selector->select(mesh);
  if (!views) return;
  std::uint64_t ranks = 0;
  for (const auto& view : *views) ranks += view.region().num_ranks();
  FUZZ_CHECK(ranks <= mesh.region().num_ranks(), text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const fuzz::ExactCopy copy(fuzz::text_of(data + 1, size - 1));
  const auto text = copy.view();
  switch (data[0] % 6) {
    case 0: check_ranges(text); break;
    case 1: check_hostfile(text); break;
    case 2: check_context(text); break;
    case 3: check_selector(text); break;
    case 4:
      if (const auto forward = ForwardText::parse(text))
        FUZZ_CHECK(forward->rank_port != 0 && !forward->ranks.empty(), text);
      break;
    default:
      if (const auto hosts = ssh_hosts({std::string(text)}, "meshbus")) {
        // What ssh gets is the host behind "--", never an option.
        const auto& command = hosts->front().command;
        FUZZ_CHECK(command.size() > 2 && command[command.size() - 3] == "--" &&
                       command[command.size() - 2].front() != '-',
                   text);
      }
      break;
  }
  return 0;
}
