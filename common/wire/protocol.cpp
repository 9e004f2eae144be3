#include "common/wire/protocol.h"

#include <algorithm>

#include "common/wire/control.h"
#include "wire/bootstrap_generated.h"
#include "wire/bus_generated.h"

namespace meshbus {
namespace {

/// `oldest` 0: it speaks one version only.
Protocol make_protocol(std::uint16_t newest, std::uint16_t oldest,
                       const flatbuffers::String* release) {
  return {newest, oldest == 0 ? newest : std::min(oldest, newest), cut_text(text_of(release), 64)};
}

}  // namespace

Protocol Protocol::of(const wire::Hello& hello) {
  return make_protocol(hello.version(), hello.oldest(), hello.release());
}

Protocol Protocol::of(const wire::Welcome& welcome) {
  return make_protocol(welcome.version(), welcome.version(), welcome.release());
}

Protocol Protocol::of(const wire::Bootstrap& bootstrap) {
  // A host that does not say is from before there was anything to say.
  return make_protocol(std::max<std::uint16_t>(bootstrap.version(), 1), bootstrap.oldest(),
                       bootstrap.release());
}

std::string Protocol::to_string() const {
  std::string text = oldest == newest ? "version " : "versions " + std::to_string(oldest) + " to ";
  text += std::to_string(newest);
  if (!release.empty()) text += " (meshbus " + release + ")";
  return text;
}

Result<std::uint16_t> common_version(std::string_view name, const Protocol& protocol,
                                     std::string_view other_name, const Protocol& other) {
  const auto newest = std::min(protocol.newest, other.newest);
  if (newest != 0 && newest >= std::max(protocol.oldest, other.oldest)) return newest;
  const auto older = std::string(protocol.newest < other.newest ? name : other_name);
  return fail(ErrorCode::version_mismatch,
              std::string(name) + " speaks " + protocol.to_string() + " of the protocol, " +
                  std::string(other_name) + " " + other.to_string() + "; update the older one, " +
                  older + ", so that both are of the same release of meshbus");
}

void announce(wire::HelloT& hello, const Protocol& protocol) {
  hello.version = protocol.newest;
  hello.oldest = protocol.oldest;
  hello.capabilities = kCapabilities;
  hello.release = protocol.release;
}

}  // namespace meshbus
