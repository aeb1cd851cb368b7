-- A session of Neovim with the plug-in of templates/editor/vim: what the client shows and does.
-- LOCKSTEP_COMMAND is the command, FOLDER has lib.step and user.step.
local failures = 0

local function check(what, good, found)
  if not good then
    failures = failures + 1
    print("FAILED: " .. what .. ": " .. vim.inspect(found) .. "\n")
  else
    print(what .. ": ok\n")
  end
end

local function finish()
  print(failures == 0 and "neovim is served\n" or failures .. " failures\n")
  vim.cmd(failures == 0 and "qall!" or "cquit")
end

local function session()
  vim.cmd("filetype plugin on")
  require("lockstep").setup({ cmd = { vim.env.LOCKSTEP_COMMAND, "lsp" }, sizes = { n = "1M" }, peak = 10 })
  vim.cmd("edit " .. vim.env.FOLDER .. "/user.step")
  local buffer = vim.api.nvim_get_current_buf()
  check("file type", vim.bo.filetype == "step", vim.bo.filetype)

  local function diagnostics()
    return vim.diagnostic.get(buffer)
  end
  local found = vim.wait(20000, function() return #diagnostics() == 1 end)
  local d = diagnostics()[1] or {}
  check("diagnostic", found and d.lnum == 3 and d.col == 8 and d.message:find("did you mean `twice`", 1, true), d)

  -- typed, not saved: behind a character of two units
  vim.api.nvim_buf_set_lines(buffer, 3, 4, false, { "    y = twice(x) # \xF0\x9F\x98\x80" })
  check("corrected", vim.wait(20000, function() return #diagnostics() == 0 end), diagnostics())

  local function ask(method, line, character, more)
    local parameters = { textDocument = { uri = vim.uri_from_bufnr(buffer) },
                         position = { line = line, character = character } }
    local answers = vim.lsp.buf_request_sync(buffer, method, vim.tbl_extend("force", parameters, more or {}), 20000)
    for _, answer in pairs(answers or {}) do
      return answer.result, answer.error
    end
  end

  local hover = ask("textDocument/hover", 3, 10)
  check("hover", hover and hover.contents.value:find("fn twice(a) = a + a", 1, true), hover)

  vim.api.nvim_win_set_cursor(0, { 4, 10 })
  vim.lsp.buf.definition()
  check("definition", vim.wait(20000, function()
    return vim.api.nvim_buf_get_name(0):match("lib.step$") ~= nil and vim.api.nvim_win_get_cursor(0)[2] == 3
  end), { vim.api.nvim_buf_get_name(0), vim.api.nvim_win_get_cursor(0) })
  vim.cmd("buffer " .. buffer)

  vim.api.nvim_win_set_cursor(0, { 4, 10 })
  vim.lsp.buf.rename("doubled")
  check("rename", vim.wait(20000, function()
    local other = vim.fn.bufnr(vim.env.FOLDER .. "/lib.step")
    return vim.api.nvim_buf_get_lines(buffer, 3, 4, false)[1]:find("doubled(x)", 1, true)
      and vim.api.nvim_buf_get_lines(other, 0, 1, false)[1] == "fn doubled(a) = a + a"
  end), vim.api.nvim_buf_get_lines(buffer, 0, -1, false))

  vim.api.nvim_buf_set_lines(buffer, 3, 4, false, { "  y   =  doubled(x)" })
  if vim.lsp.buf.format then
    vim.lsp.buf.format({ async = false, timeout_ms = 20000 })
  else
    vim.lsp.buf.formatting_sync(nil, 20000)
  end
  local line = vim.api.nvim_buf_get_lines(buffer, 3, 4, false)[1]
  check("format", line == "    y = doubled(x)", line)

  check("no errors in both files", vim.wait(20000, function() return #diagnostics() == 0 end), diagnostics())

  local items = ask("textDocument/completion", 3, 10)
  local labels = {}
  for _, item in ipairs(items or {}) do labels[item.label] = true end
  check("completion", labels.doubled and labels.x and labels.exp and labels.softmax_forward, vim.tbl_count(labels))

  local lenses = ask("textDocument/codeLens", 0, 0)
  local clients = vim.lsp.buf_get_clients and vim.lsp.buf_get_clients(buffer) or vim.lsp.get_clients({ bufnr = buffer })
  local resolved
  for _, client in pairs(clients) do
    client.request("codeLens/resolve", lenses[1], function(_, result) resolved = result end, buffer)
  end
  vim.wait(20000, function() return resolved ~= nil end)
  check("code lens", resolved and resolved.command.title:find("1 launch · 8 bytes per element of n", 1, true), resolved)
end

local good, problem = xpcall(session, debug.traceback)
check("session", good, problem)
finish()
