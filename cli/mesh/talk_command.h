#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus call`
void add_call(CLI::App& app, Commands& commands);
/// `meshbus cast`
void add_cast(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
