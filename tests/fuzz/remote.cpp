// What a launcher and a host that it starts from afar say to each other on stdin and stdout. The
// first byte says which of them reads it.
#include <algorithm>
#include <filesystem>
#include <string>

#include "cli/hosts/remote_order.h"
#include "client/src/launch/host_announcement.h"
#include "tests/fuzz/support.h"

using namespace meshbus;

namespace {

void check_orders(std::string_view text) {
  const auto end = text.find('\n');
  const auto order = cli::RemoteLine::parse(std::string(text.substr(0, end)));
  const auto hosts = cli::RemoteLine::parse(
      end == std::string_view::npos ? "{}" : std::string(text.substr(end + 1)));
  if (!order || !hosts) return;
  WardenOptions options;
  static const auto own = *HostAddr::parse("tcp:10.0.0.1:0");
  if (!cli::apply_remote_order(*order, *hosts, own, options)) return;
  FUZZ_CHECK(options.binds.size() == 1 && options.key_files.size() >= 2, text);
  for (const auto& [path, contents] : options.key_files) {
    // Nothing is written elsewhere than in the folder of keys, and no key brings lines of its own.
    // A host may be called "h.": its file is h..pub, which leads nowhere else.
    FUZZ_CHECK(std::ranges::none_of(std::filesystem::path(path),
                                    [](const auto& part) { return part == "/" || part == ".."; }),
               path);
    const auto lines = static_cast<std::size_t>(std::count(contents.begin(), contents.end(), '\n'));
    FUZZ_CHECK(lines == (path == "own.key" ? 2U : 1U), contents);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto text = fuzz::text_of(data + 1, size - 1);
  if (data[0] % 2 == 0) {
    check_orders(text);
    return 0;
  }
  const auto announcement = HostAnnouncement::parse(std::string(text));
  if (!announcement) FUZZ_CHECK(!announcement.error().detail().empty(), text);
  return 0;
}
