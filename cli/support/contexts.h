#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshbus/result.h"

namespace meshbus::cli {

/// A named connection: which hosts, and how to come to them.
struct HostContext {
  /// A list as --hosts takes it.
  std::string hosts;
  /// As --set would give them, in order.
  std::vector<std::pair<std::string, std::string>> settings;
};

/// The contexts of this user: DIR/NAME.json each, and DIR/current, which has the name of the one in
/// use. Files are 0600, written whole or not at all, and not believed when somebody else could have
/// written them.
class ContextStore {
 public:
  explicit ContextStore(std::string directory) : directory_(std::move(directory)) {}
  /// In $XDG_CONFIG_HOME/meshbus/contexts, else ~/.config/meshbus/contexts. Without a home there
  /// are none, and none can be made.
  static ContextStore of_user();

  const std::string& directory() const noexcept { return directory_; }
  std::string path_of(std::string_view name) const {
    return directory_ + "/" + std::string(name) + ".json";
  }

  /// Errors: not_exist naming those that are there; configuration_error (not to be trusted, or no
  /// context).
  Result<HostContext> read(const std::string& name) const;
  /// Makes it, or replaces it. Errors: configuration_error (the name), io_error.
  Result<void> write(const std::string& name, const HostContext& context) const;
  /// Errors: not_exist, io_error. The one in use is in use no more.
  Result<void> remove(const std::string& name) const;
  /// By name. Errors: configuration_error.
  Result<std::vector<std::string>> names() const;
  /// Empty: none. Errors: configuration_error.
  Result<std::string> in_use() const;
  /// Empty: none. Errors: not_exist, io_error.
  Result<void> use(const std::string& name) const;
  bool has(const std::string& name) const;

 private:
  Result<void> make_directory() const;

  std::string directory_;
};

/// Whether a context may be called that: 1 to 63 letters, digits, '_', '-' and '.', and no leading
/// dot or dash.
bool is_context_name(std::string_view name);

}  // namespace meshbus::cli
