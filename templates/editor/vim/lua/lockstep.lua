-- Starts `lockstep lsp` for .step files in Neovim 0.7 and newer:
--   require("lockstep").setup()
--   require("lockstep").setup({ cmd = { "/opt/bin/lockstep", "lsp" }, sizes = { n = "16M" } })
-- One server serves all files of a folder with .git, or else of the file's own folder.
local M = {}

local function root_of(buffer)
  local folder = vim.fn.fnamemodify(vim.api.nvim_buf_get_name(buffer), ":p:h")
  local git = vim.fn.finddir(".git", vim.fn.fnameescape(folder) .. ";")
  return git ~= "" and vim.fn.fnamemodify(git, ":p:h:h") or folder
end

local clients = {}

function M.start(buffer, options)
  local root = root_of(buffer)
  local id = clients[root]
  if not id or not vim.lsp.get_client_by_id(id) then
    id = vim.lsp.start_client({
      name = "lockstep",
      cmd = options.cmd,
      root_dir = root,
      workspace_folders = { { uri = vim.uri_from_fname(root), name = root } },
      flags = { debounce_text_changes = 0 }, -- the server is quick, and waits while messages wait
      init_options = { sizes = options.sizes, peak = options.peak },
    })
    clients[root] = id
  end
  if id then
    vim.lsp.buf_attach_client(buffer, id)
  end
  return id
end

function M.setup(options)
  options = vim.tbl_extend("force", { cmd = { "lockstep", "lsp" } }, options or {})
  vim.api.nvim_create_autocmd("FileType", {
    pattern = "step",
    callback = function(event)
      M.start(event.buf, options)
    end,
  })
end

return M
