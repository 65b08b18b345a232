[{ name: std.native('hostname')() }]
