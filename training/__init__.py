"""The recipe of the small model that ships with the package: its texts, its training, its export, its scores.

Nothing here is imported by the package, and none of it runs in CI but the fast tests of the texts.
docs/concepts/small-model.md tells what the model is and is not, how it was trained and how well it does. From the
lowest module to the highest:

    values          random names, numbers, paths, notes
    phrasings       how people ask: a grammar for each kind of request, with held-out branches; small_talk
    grammar         from a branch to a request: choices, politeness, punctuation
    families        the tools: declarations, results, answers
    worlds          what a conversation can see: tools, schemas, a system prompt
    episodes        one request until its answer; sequences: those of two steps
    conversations   episodes in a world, and their text
    tokenizer       the tokenizer (tokenizer.json belongs to the weights)
    model           Qwen3 in plain torch
    batches, optimiser, train   training, on a GPU or on the CPU
    export          weights -> GGUF and MLX
    evaluate        scores, free-running; fresh_requests.json: requests by someone who had not seen the recipe
    check           torch = llama.cpp = mlx-lm, and template.jinja = the recipe's own rendering

    pip install torch tokenizers gguf safetensors numpy jinja2      # to train and export
    pip install -e '.[llama,mlx]'                                   # to score and check
"""
