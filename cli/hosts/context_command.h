#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus context`: keeps lists of hosts under names.
void add_context(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
