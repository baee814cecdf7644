"""Options of LIBLINEAR, scikit-learn and Vowpal Wabbit that no command has, and the ones here that do the same;
docs/coming-from.md has the whole tables."""

CACHE = "a store takes the place of Vowpal Wabbit's cache: blocksvm split INPUT STORE.h5"
INTERACTIONS = "interactions have no option: make such features in the text"
# options -> a sentence on what does the same here
ANSWERS = {
    "-b": "Vowpal Wabbit's -b is --bits N of split and stream; for LIBLINEAR's, predict --probabilities",
    "-B": "LIBLINEAR's constant feature is --bias B",
    "-c": f"LIBLINEAR's C is -C, with a capital letter; {CACHE}",
    "-d": "Vowpal Wabbit's -d FILE has no option: blocksvm stream FILE, or split FILE STORE.h5",
    "-e": "LIBLINEAR's bound of gradients has no equal; --tol T of train bounds the relative gap over all rows",
    "-f -i": "a model is continued by --from MODEL.h5, and stream writes one by --model MODEL.h5",
    "-k": "split --overwrite replaces a store",
    "-l": "Vowpal Wabbit's learning rate is --step X of a learner",
    "-m": "LIBLINEAR's number of threads is --threads N",
    "-p": "LIBLINEAR's -p is --epsilon E; Vowpal Wabbit's is --predictions FILE of stream",
    "-q": f"quiet is --quiet; Vowpal Wabbit's -q ab: {INTERACTIONS}",
    "-r": "decision values are written by --predictions FILE --scores of stream, or predict --scores",
    "-R": "an intercept that is not regularised is --bias free",
    "-s": "LIBLINEAR's -s is --loss here: hinge is its 3, squared-hinge 1 and 2, logistic 0 and 7, "
    "epsilon-insensitive 13, squared-epsilon-insensitive 11 and 12",
    "-t": "predictions without learning are made by predict, or stream --test",
    "-v": "cross-validation is a command: blocksvm cv STORE.h5 --folds N",
    "-w": "LIBLINEAR's weights of classes are --class-weight LABEL=W,LABEL=W",
    "--active": "learning that asks for labels is stream --query B",
    "--audit --invert_hash": "info MODEL.h5 --top N lists the largest weights, export --format table all of them",
    "--bfgs": "blocksvm split, then train --loss logistic, find the certified optimum",
    "--bit_precision": "Vowpal Wabbit's --bit_precision N is --bits N of split and stream",
    "--cache --cache_file": CACHE,
    "--coin": "Vowpal Wabbit's --coin is --learner coin",
    "--csoaa": "costs of mistakes are --costs FILE of the learners pa, pa1 and pa2: by pair of labels, not by row",
    "--cubic --interactions --quadratic": INTERACTIONS,
    "--daemon": "there is no server: keep a stream reading a pipe",
    "--fit_intercept": "an intercept is --bias 1 (regularised) or --bias free",
    "--ftrl": "Vowpal Wabbit's --ftrl is --learner ftrl",
    "--holdout_off --holdout_period": "nothing is held out by default; split --holdout SHARE TEST.h5 holds rows out",
    "--initial_t": "steps have no first time; --step C and --decay sqrt, linear or constant say how long they are",
    "--learning_rate": "a learner's step is --step X",
    "--link": "probabilities are written by predict --probabilities, for a model of the logistic loss",
    "--loss_function": "the loss is --loss NAME",
    "--max_iter": "scikit-learn's max_iter is --max-outer N, readings of all rows",
    "--ngram": "n-grams of words are split --format documents --ngrams word:1-N",
    "--noconstant": "there is no constant feature unless --bias adds one",
    "--oaa": "classes against the others are --multiclass rest; stream needs their names, too: --labels 1,2,3",
    "--penalty": "the norm is the squared one; the learners fobos, adagrad-rda and ftrl take --l1",
    "--power_t": "steps fall by --decay: constant is Vowpal Wabbit's --power_t 0, sqrt its 0.5",
    "--random_state": "scikit-learn's random_state is --seed N",
    "--save_resume": "a model always has the whole state of its learner",
    "--sgd": "plain gradient steps are --learner ogd",
}
FOREIGN_OPTIONS = {option: answer for options, answer in ANSWERS.items() for option in options.split()}
